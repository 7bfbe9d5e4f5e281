if(A
set(B "
